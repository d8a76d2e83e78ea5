// Elastic Premium: instances that are always there, and a package that is read
// from its container. See docs/operating/deploy.md.
using './main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'orderflow')
param location = readEnvironmentVariable('AZURE_LOCATION')
param databaseAdministratorName = readEnvironmentVariable('DATABASE_ADMIN_NAME')
param databaseAdministratorObjectId = readEnvironmentVariable('DATABASE_ADMIN_OBJECT_ID')
param databaseAdministratorType = readEnvironmentVariable('DATABASE_ADMIN_TYPE', 'Group')

param planSku = 'EP1'
param serviceBusSku = 'Premium'
param databaseSku = 'GP_Gen5_2'
